"""
Pairs of sentences that say the same in other words.

Data. The two of a pair share no word that carries meaning, so only a model that knows
meaning finds them together: counting words finds nothing.
"""

PAIRS: tuple[tuple[str, str], ...] = (
    ("The baby fell asleep at once.", "An infant began to slumber immediately."),
    ("He repaired the broken car.", "A mechanic fixed this damaged automobile."),
    ("Delete all the old files.", "Erase every outdated document."),
    ("It rains a lot in autumn.", "Fall brings plenty of wet weather."),
    ("The doctor was very rich.", "That physician had great wealth."),
    ("Start the program again.", "Relaunch this application once more."),
    ("How much does a ticket cost?", "What is the price of admission?"),
    ("The soldiers lost the war.", "Troops were defeated in battle."),
    ("She speaks quietly.", "Her voice is soft."),
    ("Our ship sank in a storm.", "Their vessel went down during a gale."),
    ("Children love sweets.", "Kids adore candy."),
    ("The king is dead.", "A monarch has passed away."),
    ("I cannot see without glasses.", "My eyes need spectacles to work."),
    ("Buy bread and milk.", "Purchase a loaf plus dairy."),
    ("The password is wrong.", "Your secret login code was incorrect."),
    ("Save the picture on the disk.", "Store an image to permanent memory."),
    ("The town has many students.", "Lots of pupils live within this city."),
    ("The computer is too slow.", "My machine lacks speed."),
    ("They built a house of wood.", "Workers constructed a timber home."),
    ("The film made us laugh.", "That movie was funny."),
    ("Close the window, it is cold.", "Shut those panes against freezing air."),
    ("The network is down.", "There is no internet connection."),
    ("He stole money from a bank.", "A thief robbed some cash vault."),
    ("Several threads run at once.", "Tasks execute in parallel."),
)
